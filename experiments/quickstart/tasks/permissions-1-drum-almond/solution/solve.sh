#!/bin/sh
set -e
chmod 755 drum_almond.txt
