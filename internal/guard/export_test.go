package guard

import (
	"strconv"
	"time"
)

// VerifiedAfter returns how many tokens are remembered after n have been found good.
func VerifiedAfter(n int) int {
	var v verified
	for i := range n {
		v.put(strconv.Itoa(i), Identity{Expires: time.Now().Add(time.Hour)})
	}
	return len(v.by)
}
