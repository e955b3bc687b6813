package session

// Aside runs f on a stack of its own and waits for it. The goroutine of a stream does with it what goes deep before the stream falls
// silent: a stack that has grown to 16 KiB stays so, since the handlers above the stream take more than a quarter of it, and 8 KiB
// are enough for writing. A panic of f is one of the caller's.
func Aside(f func()) {
	var panicked any
	done := make(chan struct{})
	go func() { // ends with f, which the caller waits for
		defer close(done)
		defer func() { panicked = recover() }()
		f()
	}()
	<-done
	if panicked != nil {
		panic(panicked)
	}
}

// Deepen makes the stack of a new goroutine as deep as a call needs while there is next to nothing on it. Growing it further down, a
// dozen frames at a time, takes ten times as long. i is 0.
//
//go:noinline
func Deepen(i int) byte {
	var frame [5 << 10]byte
	frame[i]++ // else the compiler does without it
	return frame[len(frame)-1-i]
}
