package main

import (
	"encoding/json"
	"fmt"
)

type order struct {
	ID    int
	Name  string
	Items []int
	Notes map[string]string
}

//go:noinline
func clone(o *order) *order {
	text, _ := json.Marshal(o) // culprit: a copy by way of text
	copied := &order{}
	if err := json.Unmarshal(text, copied); err != nil {
		panic(err)
	}
	return copied
}

func main() {
	o := &order{ID: 1, Name: "first", Items: make([]int, 40), Notes: map[string]string{"a": "b", "c": "d"}}
	for round := 0; round < 90000; round++ {
		o = clone(o)
		o.ID++
	}
	fmt.Println(o.ID)
}
