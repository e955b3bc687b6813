package upstream

import "time"

// Ghosts are cancelled calls of which the server may still speak: it has not answered them, and may not
// have read the cancellation. While there are any, a message without a link may be theirs.
type ghosts map[int64]time.Time

// ghostLife is how long a server gets to notice a cancellation (translation.md 17: wait for a
// response to a cancelled call).
const ghostLife = 5 * time.Second

func (g *ghosts) add(id int64) {
	if *g == nil {
		*g = make(ghosts)
	}
	g.sweep()
	(*g)[id] = time.Now()
}

func (g *ghosts) drop(id int64) { delete(*g, id) }

// none reports whether no cancelled call can be speaking.
func (g *ghosts) none() bool {
	g.sweep()
	return len(*g) == 0
}

func (g *ghosts) sweep() {
	for id, since := range *g {
		if time.Since(since) >= ghostLife {
			delete(*g, id)
		}
	}
}
