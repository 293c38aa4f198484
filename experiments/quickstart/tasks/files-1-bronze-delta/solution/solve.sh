#!/bin/sh
set -e
rm bronze_delta.txt
