package roof

import (
	"fmt"
	"os"
	"testing"
	"testing/fstest"
)

func TestReadTakesWholeLinesAndNothingBeyond(t *testing.T) {
	for size, want := range map[int]int64{0: 0, 511: 0, 512: 512, 1000: 512, 1 << 20: 1 << 20} {
		if got := Read(NewBuffer(size)); got != want {
			t.Errorf("%d bytes: read %d, want %d", size, got, want)
		}
	}
}

func TestMultiplyAddsCountsItsOperations(t *testing.T) {
	one := MultiplyAdds(1)
	if one <= 0 || MultiplyAdds(1000) != 1000*one {
		t.Errorf("one round has %d, a thousand %d", one, MultiplyAdds(1000))
	}
	if got := MultiplyAdds(-1); got != 0 {
		t.Errorf("no round has %d", got)
	}
}

// sys has a cache of instructions and one a level of data.
func sys(sizes ...string) fstest.MapFS {
	files := fstest.MapFS{}
	add := func(i int, kind, level, size string) {
		dir := fmt.Sprintf("%s/index%d/", cacheDir, i)
		files[dir+"type"] = &fstest.MapFile{Data: []byte(kind + "\n")}
		files[dir+"level"] = &fstest.MapFile{Data: []byte(level + "\n")}
		files[dir+"size"] = &fstest.MapFile{Data: []byte(size + "\n")}
	}
	add(0, "Data", "1", "32K")
	add(1, "Instruction", "1", "32K")
	for i, size := range sizes {
		add(2+i, "Unified", fmt.Sprint(2+i), size)
	}
	return files
}

func TestLevelsAreTheCachesAndThenTheMemory(t *testing.T) {
	levels, err := Levels(sys("512K", "32768K"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Level{{"L2", 512 << 10, 256 << 10}, {"L3", 32 << 20, 16 << 20}, {"memory", 0, 128 << 20}}
	if fmt.Sprint(levels) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", levels, want)
	}
}

func TestLevelsWithoutSysAreTheMemoryAndAnError(t *testing.T) {
	for name, root := range map[string]fstest.MapFS{"nothing": {}, "rubbish": sys("big")} {
		levels, err := Levels(root)
		if err == nil || len(levels) != 1 || levels[0].Name != "memory" || levels[0].Buffer != leastMemory {
			t.Errorf("%s: %v, %v", name, levels, err)
		}
	}
}

func TestTheMemoryOfASmallComputerIsNotUsedUp(t *testing.T) {
	levels, err := Levels(sys("1024K", "393216K"))
	if err != nil {
		t.Fatal(err)
	}
	if last := levels[len(levels)-1]; last.Buffer != mostMemory {
		t.Errorf("the buffer has %d bytes", last.Buffer)
	}
}

func TestThisMachineHasLevels(t *testing.T) {
	levels, err := Levels(os.DirFS("/sys"))
	if len(levels) == 0 {
		t.Errorf("none: %v", err)
	}
}

func BenchmarkMultiplyAdds(b *testing.B) {
	flops := int64(0)
	for b.Loop() {
		flops += MultiplyAdds(10000)
	}
	b.ReportMetric(float64(flops)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}

func BenchmarkRead(b *testing.B) {
	levels, _ := Levels(os.DirFS("/sys")) // the memory is always there
	for _, l := range levels {
		b.Run(l.Name, func(b *testing.B) {
			buffer := NewBuffer(l.Buffer)
			b.SetBytes(int64(len(buffer)))
			for b.Loop() {
				Read(buffer)
			}
		})
	}
}
