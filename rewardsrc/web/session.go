package web

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"time"
)

const (
	secretBytes  = 16               // 128 bits
	inviteLife   = 5 * time.Minute  // of a code that the page created
	maxInvites   = 8                // open invitations
	maxSessions  = 64               // paired devices
	sessionLife  = 24 * time.Hour   // then the device must pair again
	seatPatience = 10 * time.Second // for a labelling device that is not connected
)

var (
	errToken    = errors.New("this code is not valid: it was used, it expired, or it is of an earlier run")
	errSessions = errors.New("too many devices are paired: end the run to forget them")
)

// secret is the stored hash of a code or a session cookie.
type secret [sha256.Size]byte

// newSecret returns a secret for its owner, and its hash.
func newSecret() (text string, kept secret) {
	var raw [secretBytes]byte
	_, _ = rand.Read(raw[:]) // never fails: it ends the program
	text = base64.RawURLEncoding.EncodeToString(raw[:])
	return text, keep(text)
}

func keep(text string) secret { return sha256.Sum256([]byte(text)) }

// equal compares in constant time.
func (s secret) equal(other secret) bool { return subtle.ConstantTimeCompare(s[:], other[:]) == 1 }

// session is a paired device.
type session struct {
	cookie  secret
	name    string // "device 2"
	role    string
	expires int64
	streams int // open; the server's mutex guards it
}

// code is a one-time pairing code.
type code struct {
	kept    secret
	role    string
	expires int64 // 0: never
}

// register holds the paired devices and the valid codes. The server's mutex
// guards it.
type register struct {
	codes    []code
	sessions []*session
	paired   int // so far
}

// issue creates a code.
func (g *register) issue(role string, now int64, life time.Duration) (text string, err error) {
	g.expire(now)
	if len(g.codes) > maxInvites {
		return "", fmt.Errorf("%d codes are valid already: use one, or wait until one expires", len(g.codes))
	}
	text, kept := newSecret()
	c := code{kept: kept, role: role}
	if life > 0 {
		c.expires = now + int64(life)
	}
	g.codes = append(g.codes, c)
	return text, nil
}

// expire removes expired codes and sessions.
func (g *register) expire(now int64) {
	codes := g.codes[:0]
	for _, c := range g.codes {
		if c.expires == 0 || now < c.expires {
			codes = append(codes, c)
		}
	}
	g.codes = codes
	sessions := g.sessions[:0]
	for _, s := range g.sessions {
		if now < s.expires {
			sessions = append(sessions, s)
		}
	}
	clear(g.sessions[len(sessions):])
	g.sessions = sessions
}

// pair exchanges a code for a session. lasting reports whether it was the lasting
// code, which the caller must then replace.
func (g *register) pair(token string, now int64) (cookie string, lasting bool, err error) {
	g.expire(now)
	kept, at := keep(token), -1
	for i, c := range g.codes { // all of them, for constant time
		if c.kept.equal(kept) {
			at = i
		}
	}
	if at < 0 {
		return "", false, errToken
	}
	if len(g.sessions) >= maxSessions {
		return "", false, errSessions
	}
	used := g.codes[at]
	g.codes = append(g.codes[:at], g.codes[at+1:]...)
	g.paired++
	s := &session{name: fmt.Sprintf("device %d", g.paired), role: used.role, expires: now + int64(sessionLife)}
	cookie, s.cookie = newSecret()
	g.sessions = append(g.sessions, s)
	return cookie, used.expires == 0, nil
}

// find returns the session of a cookie, nil for none.
func (g *register) find(cookie string, now int64) *session {
	kept := keep(cookie)
	var found *session
	for _, s := range g.sessions {
		if s.cookie.equal(kept) && now < s.expires {
			found = s
		}
	}
	return found
}

// seat is the right to label, which one device has at a time. The server's mutex
// guards it.
type seat struct {
	holder *session
	client *client  // the holder's newest connection, nil while it has none
	left   int64    // when the holder lost its connection
	asking *session // the device that asks for the seat
}

// enter records a new connection. The first device that may label takes a free
// seat; the holder labels on its newest connection.
func (s *seat) enter(c *client) {
	if c.session.role != roleLabel {
		return
	}
	if s.holder == nil {
		s.holder = c.session
	}
	if s.holder == c.session {
		s.client = c
	}
}

// leave records the end of a connection. It withdraws the request of a device
// that has no other connection.
func (s *seat) leave(c *client, others bool, now int64) {
	if s.client == c {
		s.client, s.left = nil, now
	}
	if s.asking == c.session && !others {
		s.asking = nil
	}
}

// take requests the seat for a device. It is granted at once if the seat is free
// or its holder is disconnected; otherwise the holder is asked.
func (s *seat) take(c *client, now int64) (refused string) {
	switch {
	case c.session.role != roleLabel:
		return "this device was invited to watch"
	case s.holder == nil, s.holder == c.session, s.client == nil && now-s.left >= int64(seatPatience):
		s.holder, s.client, s.asking = c.session, c, nil
	case s.client == nil:
		return "the labelling device has only just left: ask again in a few seconds"
	default:
		s.asking = c.session
	}
	return ""
}

// give hands the seat to the asking device; to is its connection.
func (s *seat) give(to *client, now int64) {
	s.holder, s.client, s.left, s.asking = s.asking, to, now, nil
}
