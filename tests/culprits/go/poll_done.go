package main

import (
	"fmt"
	"sync/atomic"
	"time"
)

//go:noinline
func waitFor(done *atomic.Int64, want int64) {
	for done.Load() < want {
		time.Sleep(10 * time.Millisecond) // culprit: looks every 10 ms for what takes 0.1
	}
}

func main() {
	var done atomic.Int64
	for job := int64(1); job <= 120; job++ {
		go func() {
			sum := 0
			for i := 0; i < 200000; i++ {
				sum += i ^ int(job)
			}
			if sum != 0 {
				done.Add(1)
			}
		}()
		waitFor(&done, job)
	}
	fmt.Println(done.Load())
}
