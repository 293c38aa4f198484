#!/bin/sh
set -e
echo kettle >> basil_fable.txt
echo heron badge >> forest_canyon.txt
