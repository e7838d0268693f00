// Command arm64 writes kernel_arm64.s, with NEON, and its declarations, which are also those of
// kernel_amd64.s. The operations and their order are those of the program for amd64.
//
// Go's assembler has the loads, the integer instructions and one multiply-add; words.go
// encodes the other instructions. Registers are assigned by hand: there are 32 of 128 bits,
// and more addresses than any loop needs.
package main

import (
	"flag"
	"log"
	"os"
)

func main() {
	out := flag.String("out", "", "the assembly")
	stubs := flag.String("stubs", "", "the declarations")
	flag.Parse()
	assembly, declarations := generate()
	for path, text := range map[string]string{*out: assembly, *stubs: declarations} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// generate returns the assembly and the declarations of its functions.
func generate() (assembly, declarations string) {
	f := newFile()
	for rows := 1; rows <= tileRows; rows++ {
		f.dense(rows)
		f.sparse(rows)
		f.active(rows)
	}
	for _, panels := range []int{2, 3, 4} {
		f.vector(panels)
		f.sparseVector(panels)
	}
	for _, panels := range []int{1, 2, 3, 4} {
		f.halfVector(panels)
	}
	f.widen16()
	f.sum()
	f.squares()
	f.norms()
	return f.assembly.String(), f.stubs.String()
}
