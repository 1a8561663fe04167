package main

import (
	"fmt"
	"sync"
)

func isPrime(n int) bool {
	for d := 2; d < n; d++ { // culprit: up to n, not to its root
		if n%d == 0 {
			return false
		}
	}
	return n > 1
}

//go:noinline
func countPrimes(from, to int) int {
	found := 0
	for n := from; n < to; n++ {
		if isPrime(n) {
			found++
		}
	}
	return found
}

func main() {
	counts := make(chan int)
	var workers sync.WaitGroup
	for part := 0; part < 8; part++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			counts <- countPrimes(part*6000, part*6000+6000)
		}()
	}
	go func() { workers.Wait(); close(counts) }()
	total := 0
	for count := range counts {
		total += count
	}
	fmt.Println(total)
}
