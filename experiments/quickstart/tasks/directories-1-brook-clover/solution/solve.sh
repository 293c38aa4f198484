#!/bin/sh
set -e
mkdir -p brook_clover/cherry
