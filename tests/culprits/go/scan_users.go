package main

import (
	"fmt"
	"strings"
)

type user struct{ name, mail string }

//go:noinline
func find(users []user, mail string) *user {
	for i := range users {
		if strings.ToLower(users[i].mail) == mail { // culprit: a scan, and a copy for each
			return &users[i]
		}
	}
	return nil
}

func main() {
	var users []user
	for i := 0; i < 8000; i++ {
		users = append(users, user{fmt.Sprint("user", i), fmt.Sprintf("User%d@Example.com", i)})
	}
	found := 0
	for i := 0; i < 8000; i += 8 {
		if find(users, fmt.Sprintf("user%d@example.com", i)) != nil {
			found++
		}
	}
	fmt.Println(found)
}
