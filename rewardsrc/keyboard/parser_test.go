package keyboard

import (
	"strings"
	"testing"
)

// keysOf returns the keys of one read by a fresh parser.
func keysOf(input string) string {
	var p parser
	return feedAll(&p, input, 1e9)
}

func feedAll(p *parser, input string, at int64) string {
	var keys strings.Builder
	p.begin(at)
	for _, b := range []byte(input) {
		if k, ok := p.feed(b); ok {
			keys.WriteByte(byte(k))
		}
	}
	return keys.String()
}

func TestParser_DiscardsEscapeSequences(t *testing.T) {
	for name, input := range map[string]string{
		"arrows":               "\x1b[A\x1b[B\x1bOC\x1bOD",
		"function keys":        "\x1bOP\x1b[15~\x1b[24;5~",
		"alt and a digit":      "\x1b5",
		"device attributes":    "\x1b[?64;1;2c",
		"cursor position":      "\x1b[12;40R",
		"mouse, X10":           "\x1b[M+12",
		"mouse, SGR":           "\x1b[<0;12;5M",
		"colour answer, BEL":   "\x1b]11;rgb:1111/2222/3333\x07",
		"colour answer, ST":    "\x1b]11;rgb:1111/2222/3333\x1b\\",
		"version, DCS":         "\x1bP>|xterm(389)\x1b\\",
		"a paste":              "\x1b[200~+++-123\x1b[A456\x1b[201~",
		"escape then sequence": "\x1b\x1b[A",
		"cut sequence":         "\x1b[1\x1b[A",
		"accents":              "é+µ",
	} {
		want := "x"
		if name == "accents" {
			want = "+x"
		}
		if got := keysOf(input + "x"); got != want {
			t.Errorf("%s: keys %q, want %q", name, got, want)
		}
	}
}

func TestParser_ReadsKeysThatAreReportedAsSequences(t *testing.T) {
	for input, want := range map[string]string{
		"\x1b[99;5u":                 "\x03", // kitty: Ctrl-C
		"\x1b[99;69u":                "\x03", // with Caps Lock
		"\x1b[99;5:1u":               "\x03", // with the kind of event
		"\x1b[99:67:99;5u":           "\x03",
		"\x1b[1089::99;5u":           "\x03", // the key of a Cyrillic layout
		"\x1b[27;5;99~":              "\x03", // modifyOtherKeys
		"\x1b[27;6;67~":              "\x03", // with Shift
		"\x1b[99;5:3u":               "",     // its release
		"\x1b[99;7u\x1b[27;7;99~":    "",     // with Alt
		"\x1b[51;5u\x1b[27;5;51~":    "",     // Ctrl-3 is no 3
		"\x1b[27u":                   "\x1b",
		"\x1b[127u":                  "\x7f",
		"\x1b[43u":                   "+",
		"\x1b[61:43;2u":              "+",
		"\x1b[61;2;43u":              "+",
		"\x1b[27;2;43~":              "+",
		"\x1b[55;2u":                 "", // / on a German keyboard, never 7
		"\x1b[57413u\x1b[3u\x1b[u":   "",
		"\x1b[?1u\x1b[>1u\x1b[;;;;u": "",
		"\x1b[200~\x1b[43u\x1b[201~": "", // pasted
		"\x1b[27;5~\x1b[27;5;99;1~":  "",
	} {
		if got := keysOf(input + "x"); got != want+"x" {
			t.Errorf("%q: keys %q, want %q", input, got, want+"x")
		}
	}
}

func TestParser_CtrlCEndsSequence(t *testing.T) {
	for _, start := range []string{"", "\x1b", "\x1b[", "\x1b[12;", "\x1bO", "\x1b]11;", "\x1bP"} {
		if got := keysOf(start + "\x03"); got != "\x03" {
			t.Errorf("after %q: keys %q, want Ctrl-C", start, got)
		}
	}
}

func TestParser_LoneEscape(t *testing.T) {
	var p parser
	if got := feedAll(&p, "\x1b", 1e9); got != "" {
		t.Errorf("Escape gave %q", got)
	}
	if got := feedAll(&p, "+", 2e9); got != "+" {
		t.Errorf("a second later + gave %q", got)
	}
}

func TestParser_SequenceInPieces(t *testing.T) {
	var p parser
	if got := feedAll(&p, "\x1b", 1e9) + feedAll(&p, "[1;5", 1e9+1e6) + feedAll(&p, "A+", 1e9+2e6); got != "+" {
		t.Errorf("keys %q, want +", got)
	}
}

func TestParser_PasteTimesOut(t *testing.T) {
	var p parser
	feedAll(&p, "\x1b[200~abc", 1e9)
	if got := feedAll(&p, "+", 1e9+5e8); got != "" {
		t.Errorf("within the paste: %q", got)
	}
	if got := feedAll(&p, "+", 4e9); got != "+" {
		t.Errorf("after the silence: %q, want +", got)
	}
	if p.takePasted() != 4 || p.takePasted() != 0 {
		t.Error("the discarded keys were not counted once")
	}
}

func TestParser_CutsEndlessString(t *testing.T) {
	if got := keysOf("\x1b]" + strings.Repeat("a", 2*maxSequence) + "+"); !strings.HasSuffix(got, "+") {
		t.Errorf("keys %q: the string never ended", got)
	}
}

func FuzzKeys(f *testing.F) {
	for _, seed := range []string{
		"+-0", "\x1b[A5", "\x1b[200~12\x1b[201~3", "\x1b]0;t\x07u", "\x1b[M+12q", "é\x9b1m", "++++++++\x03",
		"><g", "\x1b[<0;12;5M>", "\x1bP>|g<\x1b\\<",
	} {
		f.Add([]byte(seed), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		cfg := DefaultConfig()
		d := decoder{cfg: &cfg}
		for i, input := range [][]byte{first, second} {
			presses, others, ignored := d.decode(input, int64(i)*1e7)
			if len(presses)+len(others) > maxKeys {
				t.Fatalf("%d presses and %d keys of one read", len(presses), len(others))
			}
			if ignored < 0 || len(presses)+len(others)+ignored > len(first)+len(input) {
				t.Fatalf("%d presses, %d keys, %d ignored of %d bytes", len(presses), len(others), ignored, len(input))
			}
			for _, key := range others {
				if _, isLabel := cfg.inputOf(key); isLabel || key >= 0x80 || key == Escape {
					t.Fatalf("key %q went to the screen", key)
				}
			}
		}
	})
}
