#!/bin/sh
set -e
echo opal lilac >> coral_indigo.txt
echo clover forest >> river_fable.txt
echo quartz >> marble_oak.txt
