#!/bin/sh
set -e
mkdir -p jasmine_flame/mint
