#!/bin/sh
set -e
chmod 750 beach_ridge.txt
