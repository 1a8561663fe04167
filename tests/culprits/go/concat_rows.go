package main

import "fmt"

//go:noinline
func exportRows(rows int) string {
	out := ""
	for row := 0; row < rows; row++ {
		out += fmt.Sprintf("%d;%d\n", row, row*row) // culprit: copies all rows for each
	}
	return out
}

func main() {
	total := 0
	for page := 0; page < 6; page++ {
		total += len(exportRows(12000))
	}
	fmt.Println(total)
}
