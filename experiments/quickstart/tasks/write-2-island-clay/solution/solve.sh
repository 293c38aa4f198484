#!/bin/sh
set -e
echo oak birch > island_clay.txt
echo fable cotton > fable_linen.txt
