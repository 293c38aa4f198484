#!/bin/sh
set -e
chmod 750 onyx_quartz.txt
