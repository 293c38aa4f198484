#!/bin/sh
set -e
echo lantern kettle > hazel_apron.txt
