#!/bin/sh
set -e
echo lagoon opal >> lemon_lagoon.txt
