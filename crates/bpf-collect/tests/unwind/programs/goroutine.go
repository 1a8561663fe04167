// Allocates: the runtime collects garbage on a stack of its own, beside the goroutine's.
package main

var kept [][]byte

//go:noinline
func fill(count int) [][]byte {
	var all [][]byte
	for i := 0; i < count; i++ {
		all = append(all, make([]byte, 100+i%4000))
	}
	return all
}

//go:noinline
func work() {
	for {
		kept = fill(3000)
	}
}

func main() {
	work()
}
