package keyboard

import (
	"strconv"
	"strings"
)

// Key is the ASCII byte that a terminal sends for a key, control keys included.
type Key byte

// Keys without a printable name.
const (
	CtrlC     Key = 0x03
	Escape    Key = 0x1b
	Backspace Key = 0x7f
)

// parser finds single keys in the output of a terminal. It reads keys that a
// terminal reports as sequences (xterm's modifyOtherKeys, kitty's keyboard
// protocol). It discards other escape sequences (ECMA-48, and xterm's ctlseqs for
// mouse and paste) and the bytes of characters outside ASCII.
type parser struct {
	state   parserState
	params  []byte // of the control sequence
	length  int    // bytes of the sequence so far
	pasting bool   // between the brackets of a paste
	pasted  int    // keys discarded since takePasted
	lastAt  int64
}

type parserState uint8

const (
	ground        parserState = iota
	afterEscape               // ESC
	inControl                 // ESC [ ...
	inShift                   // ESC O, one byte follows
	inString                  // ESC ] P X ^ _ ..., until BEL or ESC \
	inMouse                   // ESC [ M, three bytes follow
	mouseBytes    = 3         // button, column, row
	maxSequence   = 256       // longer ones are cut
	escapeTimeout = int64(50e6)
	pasteTimeout  = int64(1e9)
)

// begin starts a new read at a moment. It drops an incomplete sequence: a lone
// Escape must not swallow the next key.
func (p *parser) begin(at int64) {
	idle := at - p.lastAt
	if idle > escapeTimeout && !p.pasting || idle > pasteTimeout {
		*p = parser{pasted: p.pasted}
	}
	p.lastAt = at
}

// feed takes one byte; ok reports that it is a key.
func (p *parser) feed(b byte) (key Key, ok bool) {
	if p.state == ground {
		return p.plain(b)
	}
	if p.state != inMouse && b < 0x20 && b != byte(Escape) {
		return p.control(b)
	}
	if p.length++; p.length > maxSequence {
		p.state = ground
		return 0, false
	}
	switch p.state {
	case afterEscape:
		p.escape(b)
	case inControl:
		return p.sequence(b)
	case inShift:
		p.state = ground
	case inString:
		if b == byte(Escape) {
			p.state = afterEscape
		}
	case inMouse:
		if p.length == mouseBytes {
			p.state = ground
		}
	}
	return 0, false
}

func (p *parser) plain(b byte) (Key, bool) {
	if b == byte(Escape) {
		p.state, p.length = afterEscape, 0
		return 0, false
	}
	if b >= 0x80 {
		return 0, false
	}
	if p.pasting {
		p.pasted++
		return 0, false
	}
	return Key(b), true
}

// control handles a control byte within a sequence: it ends the sequence and
// takes effect, so that Ctrl-C always gets through.
func (p *parser) control(b byte) (Key, bool) {
	wasString := p.state == inString
	p.state = ground
	if wasString && b == 0x07 { // BEL ends a string
		return 0, false
	}
	return p.plain(b)
}

func (p *parser) escape(b byte) {
	switch b {
	case '[':
		p.state, p.params, p.length = inControl, p.params[:0], 1
	case 'O':
		p.state = inShift
	case ']', 'P', 'X', '^', '_':
		p.state = inString
	case byte(Escape):
	default: // Alt and a key, or the end of a string
		p.state = ground
	}
}

func (p *parser) sequence(b byte) (Key, bool) {
	switch {
	case b == byte(Escape):
		p.state = afterEscape
	case b < 0x40 || b > 0x7e:
		p.params = append(p.params, b)
	case b == 'M' && p.length == 2:
		p.state, p.length = inMouse, 0
	default:
		p.state = ground
		switch params := string(p.params); {
		case b == '~' && params == "200":
			p.pasting = true
		case b == '~' && params == "201":
			p.pasting = false
		case !p.pasting && b == '~' && strings.HasPrefix(params, "27;"):
			return otherKey(params)
		case !p.pasting && b == 'u':
			return protocolKey(params)
		}
	}
	return 0, false
}

// Modifiers, as one less than their parameter. Caps Lock and Num Lock do not matter.
const (
	shift   = 1
	control = 4
	others  = 2 | 8 | 16 | 32 // Alt, Super, Hyper, Meta
)

// otherKey reads the parameters 27;MODIFIERS;CODE of xterm's modifyOtherKeys. The code has the
// effect of Shift.
func otherKey(params string) (Key, bool) {
	fields := strings.Split(params, ";")
	if len(fields) != 3 {
		return 0, false
	}
	return keyWith(number(fields[2]), number(fields[1])-1)
}

// protocolKey reads the parameters CODE:SHIFTED:LATIN;MODIFIERS:EVENT;TEXT of kitty's protocol, of
// which only the first is required. The code is that without Shift: a shifted key counts only if
// its character is there.
func protocolKey(params string) (Key, bool) {
	fields := strings.Split(params+";;", ";")
	codes, state, text := strings.Split(fields[0]+"::", ":"), strings.Split(fields[1]+":", ":"), fields[2]
	if state[1] == "3" { // a release
		return 0, false
	}
	code, modifiers := number(codes[0]), 0
	if state[0] != "" {
		modifiers = number(state[0]) - 1
	}
	switch {
	case modifiers&control != 0 && code >= 0x80: // Cyrillic and others have the Latin key of the same place
		code = number(codes[2])
	case modifiers&control != 0:
	case text != "":
		code = number(text)
	case modifiers&shift != 0:
		code = number(codes[1])
	}
	return keyWith(code, modifiers)
}

// keyWith returns an ASCII key with modifiers, such as Ctrl-C.
func keyWith(code, modifiers int) (Key, bool) {
	if code < 0x20 && code != int(Escape) || code >= 0x80 || modifiers < 0 || modifiers&others != 0 {
		return 0, false
	}
	if modifiers&control == 0 {
		return Key(code), true
	}
	return Key(code & 0x1f), code >= '@'
}

// number returns -1 for a text that is not a number.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

// takePasted returns the number of discarded pasted keys and resets it.
func (p *parser) takePasted() int {
	n := p.pasted
	p.pasted = 0
	return n
}
