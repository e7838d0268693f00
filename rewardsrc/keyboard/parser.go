package keyboard

// Key is the ASCII byte that a terminal sends for a key, control keys included.
type Key byte

// Keys without a printable name.
const (
	CtrlC     Key = 0x03
	Escape    Key = 0x1b
	Backspace Key = 0x7f
)

// parser finds single keys in the output of a terminal. It discards escape
// sequences (ECMA-48, and xterm's ctlseqs for mouse and paste) and the bytes of
// characters outside ASCII.
type parser struct {
	state   parserState
	param   int  // first parameter of the control sequence
	length  int  // bytes of the sequence so far
	pasting bool // between the brackets of a paste
	pasted  int  // keys discarded since takePasted
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
	maxParam      = 9999      // larger numbers are clamped
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
		p.sequence(b)
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
		p.state, p.param, p.length = afterEscape, 0, 0
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
		p.state, p.param, p.length = inControl, 0, 1
	case 'O':
		p.state = inShift
	case ']', 'P', 'X', '^', '_':
		p.state = inString
	case byte(Escape):
	default: // Alt and a key, or the end of a string
		p.state = ground
	}
}

func (p *parser) sequence(b byte) {
	switch {
	case b == byte(Escape):
		p.state = afterEscape
	case b >= '0' && b <= '9':
		p.param = min(10*p.param+int(b-'0'), maxParam)
	case b < 0x40 || b > 0x7e: // not a single number: no paste
		p.param = maxParam
	case b == 'M' && p.length == 2:
		p.state, p.length = inMouse, 0
	default:
		p.state = ground
		if b == '~' && p.param == 200 {
			p.pasting = true
		}
		if b == '~' && p.param == 201 {
			p.pasting = false
		}
	}
}

// takePasted returns the number of discarded pasted keys and resets it.
func (p *parser) takePasted() int {
	n := p.pasted
	p.pasted = 0
	return n
}
