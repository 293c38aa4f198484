#!/bin/sh
set -e
mkdir cliff_island
