package main

import (
	"fmt"
	"os"
)

type journal struct{ file *os.File }

//go:noinline
func (j *journal) record(line string) {
	j.file.WriteString(line)
	j.file.Sync() // culprit: once for each line
}

func main() {
	file, err := os.CreateTemp(".", "journal")
	if err != nil {
		panic(err)
	}
	defer os.Remove(file.Name())
	j := &journal{file}
	for line := 0; line < 400; line++ {
		j.record(fmt.Sprintf("entry %d\n", line))
	}
	fmt.Println("done")
}
