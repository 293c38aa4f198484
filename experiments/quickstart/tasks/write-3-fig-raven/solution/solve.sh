#!/bin/sh
set -e
echo brook anchor > fig_raven.txt
echo desert maple > falcon_jade.txt
echo linen > moss_basil.txt
