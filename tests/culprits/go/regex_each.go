package main

import (
	"fmt"
	"regexp"
)

//go:noinline
func matches(line string) bool {
	found, _ := regexp.MatchString(`^[a-z]+[0-9]{2,6}(-[a-f0-9]+)*$`, line) // culprit: compiles it for each line
	return found
}

func main() {
	found := 0
	for line := 0; line < 60000; line++ {
		if matches(fmt.Sprintf("row%d-%x", line%100000, line)) {
			found++
		}
	}
	fmt.Println(found)
}
