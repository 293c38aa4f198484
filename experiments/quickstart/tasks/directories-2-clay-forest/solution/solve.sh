#!/bin/sh
set -e
mkdir clay_forest
mkdir lilac_fig
