package main

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestGenerate_WritesTheCommittedFiles(t *testing.T) {
	assembly, stubs := generate()
	for name, want := range map[string]string{"kernel_arm64.s": assembly, "stubs.go": stubs} {
		got, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is not what the generator writes: run go generate in its folder", name)
		}
	}
}

var wordLine = regexp.MustCompile(`(?m)^\tWORD \$0x([0-9a-f]{8}) // (.*)$`)

// TestWords_DisassembleToTheirComments uses GNU's disassembler as an independent reference.
func TestWords_DisassembleToTheirComments(t *testing.T) {
	assembly, _ := generate()
	check := wordLine.FindAllStringSubmatch(assembly+anyRegisters(), -1)
	if want := strings.Count(assembly, "WORD"); len(check) <= want {
		t.Fatalf("%d words were found, want more than %d", len(check), want)
	}
	code := new(bytes.Buffer)
	for _, word := range check {
		number, err := strconv.ParseUint(word[1], 16, 32)
		if err != nil {
			t.Fatal(err)
		}
		if err := binary.Write(code, binary.LittleEndian, uint32(number)); err != nil {
			t.Fatal(err)
		}
	}
	got := disassembled(t, code.Bytes())
	if len(got) != len(check) {
		t.Fatalf("%d instructions were disassembled, want %d", len(got), len(check))
	}
	for i, word := range check {
		if got[i] != word[2] {
			t.Errorf("%s is %q, want %q", word[1], got[i], word[2])
		}
	}
	t.Logf("%d words", len(check))
}

// anyRegisters returns every instruction with registers and elements of any number.
func anyRegisters() string {
	f, rng := newFile(), rand.New(rand.NewPCG(1, 1))
	f.assembly.Reset()
	v := func() int { return rng.IntN(32) }
	for range 300 {
		for _, write := range []func(d, n, m int){f.mul4, f.add4, f.sub4, f.div4, f.max4, f.min4, f.add2, f.sub2} {
			write(v(), v(), v())
		}
		for _, write := range []func(d, n int){f.widen, f.widenHigh, f.addPair, f.nearest, f.float4} {
			write(v(), v())
		}
		f.fmla4(v(), v(), v(), rng.IntN(4))
	}
	return f.assembly.String()
}

func disassembled(t *testing.T, code []byte) (instructions []string) {
	const program = "aarch64-linux-gnu-objdump"
	if _, err := exec.LookPath(program); err != nil {
		t.Skip(program, " is not installed (Debian: binutils-aarch64-linux-gnu)")
	}
	path := filepath.Join(t.TempDir(), "words")
	if err := os.WriteFile(path, code, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, "-D", "-z", "-b", "binary", "-m", "aarch64", path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		// An address, the word, the mnemonic, the operands.
		if fields := strings.SplitN(strings.TrimSpace(line), "\t", 4); len(fields) == 4 {
			instructions = append(instructions, fields[2]+" "+fields[3])
		}
	}
	return instructions
}
