#!/bin/sh
set -e
echo island > cactus_marble.txt
echo bronze copper > robin_apron.txt
echo moss opal > oasis_delta.txt
