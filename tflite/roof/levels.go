package roof

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Level is a level of the memory.
type Level struct {
	Name   string // L2, L3 or memory
	Size   int64  // bytes that it holds; 0: memory, which holds all
	Buffer int    // bytes of a buffer that is read from this level
}

// The buffer for the memory is several times the last cache, within what a
// small computer can spare.
const (
	leastMemory = 64 << 20
	mostMemory  = 512 << 20
)

// Levels returns the levels beyond the first cache of the first processor, the
// nearest first, from Linux's /sys given as root (os.DirFS("/sys")); the last one
// is the memory. Where /sys does not tell, there is the memory alone, and an
// error.
func Levels(root fs.FS) ([]Level, error) {
	levels, err := caches(root)
	last := int64(0)
	if n := len(levels); n > 0 {
		last = levels[n-1].Size
	}
	memory := Level{Name: "memory", Buffer: int(min(max(4*last, leastMemory), mostMemory))}
	return append(levels, memory), err
}

const cacheDir = "devices/system/cpu/cpu0/cache"

func caches(root fs.FS) ([]Level, error) {
	entries, err := fs.Glob(root, cacheDir+"/index*")
	if err != nil || len(entries) == 0 {
		return nil, errors.New("roof: /sys does not tell the sizes of the caches")
	}
	var levels []Level
	for _, dir := range entries {
		level, size, err := cache(root, dir)
		if err != nil {
			return nil, fmt.Errorf("roof: %s: %w", dir, err)
		}
		if level < 2 || size == 0 {
			continue
		}
		levels = append(levels, Level{Name: fmt.Sprintf("L%d", level), Size: size, Buffer: int(size / 2)})
	}
	slices.SortFunc(levels, func(a, b Level) int { return strings.Compare(a.Name, b.Name) })
	return slices.DeleteFunc(levels, func(l Level) bool { return l.Size > mostMemory }), nil
}

// cache reads one cache's level and size; size is 0 for one of instructions.
func cache(root fs.FS, dir string) (level int, size int64, err error) {
	read := func(name string) string {
		text, e := fs.ReadFile(root, dir+"/"+name)
		err = errors.Join(err, e)
		return strings.TrimSpace(string(text))
	}
	kind, number, text := read("type"), read("level"), read("size")
	if err != nil || kind == "Instruction" {
		return 0, 0, err
	}
	if level, err = strconv.Atoi(number); err != nil {
		return 0, 0, err
	}
	kib, err := strconv.ParseInt(strings.TrimSuffix(text, "K"), 10, 32)
	return level, kib << 10, err
}
