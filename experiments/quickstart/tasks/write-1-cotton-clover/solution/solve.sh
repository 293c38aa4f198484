#!/bin/sh
set -e
echo coast > cotton_clover.txt
