#!/bin/bash
export MODEL=small
python examples/shapes/launch.py
