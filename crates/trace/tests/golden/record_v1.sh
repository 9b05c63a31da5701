#!/bin/sh
# Makes v1/ anew, for the day on which version 1 is still the version and its meaning had to change.
# usage: record_v1.sh RELIVE
set -eu
here=$(cd "$(dirname "$0")" && pwd)
rm -rf /tmp/demo "$here/v1"
mkdir /tmp/demo
gcc -g -O1 -pthread -o /tmp/demo/v1 "$here/v1.c"
cd /tmp/demo
env -i PATH=/usr/bin:/bin HOME=/tmp/demo "$1" record -o "$here/v1" -- ./v1 || test $? = 5
