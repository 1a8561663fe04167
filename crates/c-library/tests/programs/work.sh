# What bash does with all its functions probed.
x=0; for i in $(seq "${1:-20000}"); do x=$((x+i)); s="a$i"; case $s in *99*) y=${s/9/z};; esac; done; echo $x $y; f() { local a=$1; [ $a -gt 0 ] && f $((a-1)); echo -n .; }; f 100; printf '%s\n' {1..200} | sort -r | head -3; a=(1 2 3); declare -A h; for i in {1..500}; do h[k$i]=$i; done; echo ${#h[@]} ; ls / | wc -l
