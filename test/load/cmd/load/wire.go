package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// conn is a keep-alive HTTP/1.1 client connection that does no more than this
// tool needs, so that the generator takes little of the two cores it shares
// with what it measures.
type conn struct {
	host string
	nc   net.Conn
	br   *bufio.Reader
	wb   []byte
	body body
	lr   *bufio.Reader
	rcv  int // receive buffer to ask for, 0 = default
	size int // read buffer
}

type response struct {
	status  int
	ctype   string
	session string
	close   bool
}

func newConn(host string) *conn { return &conn{host: host, size: 16 << 10} }

func (c *conn) dial() error {
	if c.nc != nil {
		return nil
	}
	nc, err := net.DialTimeout("tcp", c.host, 5*time.Second)
	if err != nil {
		return err
	}
	if c.rcv > 0 {
		nc.(*net.TCPConn).SetReadBuffer(c.rcv)
	}
	c.nc = nc
	if c.br == nil {
		c.br = bufio.NewReaderSize(nc, c.size)
	} else {
		c.br.Reset(nc)
	}
	return nil
}

func (c *conn) shut() {
	if c.nc != nil {
		c.nc.Close()
		c.nc = nil
	}
}

func (c *conn) write(head string, payload []byte, timeout time.Duration) error {
	if err := c.dial(); err != nil {
		return err
	}
	c.nc.SetDeadline(time.Now().Add(timeout))
	c.wb = append(c.wb[:0], head...)
	if payload != nil {
		c.wb = append(c.wb, "Content-Length: "...)
		c.wb = strconv.AppendInt(c.wb, int64(len(payload)), 10)
		c.wb = append(c.wb, "\r\n\r\n"...)
		if len(payload) > 64<<10 {
			if _, err := c.nc.Write(c.wb); err != nil {
				return err
			}
			_, err := c.nc.Write(payload)
			return err
		}
		c.wb = append(c.wb, payload...)
	} else {
		c.wb = append(c.wb, "\r\n"...)
	}
	_, err := c.nc.Write(c.wb)
	return err
}

func (c *conn) readHead() (r response, err error) {
	for {
		line, err := c.br.ReadSlice('\n')
		if err != nil {
			return r, err
		}
		if len(line) < 12 {
			return r, errors.New("bad status line")
		}
		r.status, _ = strconv.Atoi(string(line[9:12]))
		c.body = body{br: c.br, left: -1, first: true}
		for {
			line, err = c.br.ReadSlice('\n')
			if err != nil {
				return r, err
			}
			line = bytes.TrimRight(line, "\r\n")
			if len(line) == 0 {
				break
			}
			k, v, _ := bytes.Cut(line, []byte(":"))
			v = bytes.TrimSpace(v)
			switch {
			case len(k) == 14 && bytes.EqualFold(k, []byte("content-length")):
				c.body.left, _ = strconv.ParseInt(string(v), 10, 64)
				if c.body.left == 0 {
					c.body.done = true
				}
			case len(k) == 17 && bytes.EqualFold(k, []byte("transfer-encoding")):
				c.body.chunked, c.body.left = true, 0
			case len(k) == 12 && bytes.EqualFold(k, []byte("content-type")):
				r.ctype = string(v)
			case len(k) == 14 && bytes.EqualFold(k, []byte("mcp-session-id")):
				r.session = string(v)
			case len(k) == 10 && bytes.EqualFold(k, []byte("connection")):
				r.close = bytes.EqualFold(v, []byte("close"))
			}
		}
		if r.status == 100 {
			continue
		}
		if r.status == 204 || r.status == 304 {
			c.body.done = true
		}
		return r, nil
	}
}

// post sends one message and hands every JSON-RPC message of the reply to f.
func (c *conn) post(head string, payload []byte, timeout time.Duration, f func(msg []byte)) (response, error) {
	fresh := c.nc == nil
	err := c.write(head, payload, timeout)
	var r response
	if err == nil {
		r, err = c.readHead()
	}
	if err != nil && !fresh && !isTimeout(err) { // an idle connection the server closed
		c.shut()
		if err = c.write(head, payload, timeout); err == nil {
			r, err = c.readHead()
		}
	}
	if err != nil {
		c.shut()
		return r, err
	}
	if strings.HasPrefix(r.ctype, "text/event-stream") {
		err = c.events(func(_, data []byte) bool {
			if f != nil && len(data) > 0 {
				f(data)
			}
			return false
		})
	} else {
		var b []byte
		if c.body.left > 0 && !c.body.chunked {
			b = make([]byte, c.body.left)
			_, err = io.ReadFull(&c.body, b)
		} else if !c.body.done {
			b, err = io.ReadAll(&c.body)
		}
		if f != nil && len(b) > 0 && r.status < 300 {
			f(b)
		}
	}
	if err != nil || r.close {
		c.shut()
	}
	return r, err
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

type endpoint struct{ host, path string }

func parseURL(s string) (endpoint, error) {
	u, err := url.Parse(s)
	if err != nil {
		return endpoint{}, err
	}
	return endpoint{u.Host, u.RequestURI()}, nil
}
