package main

import (
	"fmt"
	"sync"
)

type ledger struct {
	lock  sync.Mutex
	total map[int]int
}

//go:noinline
func (l *ledger) post(account, amount int) {
	l.lock.Lock()
	defer l.lock.Unlock()
	for step := 0; step < 400; step++ { // culprit: all work is done under the lock
		amount = amount*31 + step
	}
	l.total[account%64] += amount & 7
}

func main() {
	l := &ledger{total: map[int]int{}}
	var workers sync.WaitGroup
	for worker := 0; worker < 4; worker++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for entry := 0; entry < 900000; entry++ {
				l.post(entry, worker)
			}
		}()
	}
	workers.Wait()
	fmt.Println(len(l.total))
}
