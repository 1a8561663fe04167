#!/bin/sh
# Prints the packages of a list file, one a line, without comments.
[ -f "$1" ] && sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$1" || true
