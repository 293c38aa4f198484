#!/bin/sh
set -e
echo ginger >> moss_raven.txt
