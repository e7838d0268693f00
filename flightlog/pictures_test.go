package flightlog

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foxglove/mcap/go/mcap"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// testPicture returns picture number i, one every 100 ms.
func testPicture(i int) Picture {
	return Picture{
		At:   testMetadata(testShape).Clock.MonoNS + int64(i)*1e8,
		JPEG: bytes.Repeat([]byte{0xff, 0xd8, byte(i), byte(i >> 8)}, 300),
	}
}

// createPictures writes a log and n of its pictures, half of them in each of two files, and closes
// both.
func createPictures(t *testing.T, n int) (log string) {
	t.Helper()
	now := time.Unix(1e9, 0)
	w, log := create(t, testMetadata(testShape), Options{NoSync: true, Now: func() time.Time { return now }})
	pictures := w.Pictures(0)
	for i := range n {
		fatal.If(t, w.WriteTick(randomTick(testShape, uint64(i))))
		if i == n/2-1 {
			now = now.Add(maxPicturesTime)
		}
		fatal.If(t, pictures.Write(testPicture(i)))
	}
	fatal.If(t, pictures.Close())
	fatal.If(t, w.Close())
	return log
}

func readPictures(t *testing.T, log string) (found []int, errs []error) {
	t.Helper()
	for p, err := range open(t, log).Pictures() {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		i := int(p.JPEG[2]) | int(p.JPEG[3])<<8
		if want := testPicture(i); p.At != want.At || !bytes.Equal(p.JPEG, want.JPEG) {
			t.Fatalf("picture %d: %d bytes at %d", i, len(p.JPEG), p.At)
		}
		found = append(found, i)
	}
	return found, errs
}

func countTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

func TestPictures_AreInFilesBesideTheLog(t *testing.T) {
	log := createPictures(t, 20)
	if found, errs := readPictures(t, log); len(errs) > 0 || !slices.Equal(found, countTo(20)) {
		t.Errorf("%v, %v", found, errs)
	}
	files := open(t, log).PictureFiles()
	stem := strings.TrimSuffix(log, ".mcap")
	if !slices.Equal(files, []string{stem + ".view-001.mcap", stem + ".view-002.mcap"}) {
		t.Fatal(files)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm()&0o007 != 0 {
		t.Errorf("everybody may read pictures: %v, %v", info.Mode(), err)
	}
	errtest.Contains(t, errtest.Of(Open(files[0])), filepath.Base(log), "a file of pictures opens as a log")
}

// The independent reader is the MCAP library with the definition in the file.
func TestPictures_AreReadByTheMCAPLibrary(t *testing.T) {
	log := createPictures(t, 20)
	f, err := os.Open(open(t, log).PictureFiles()[1])
	fatal.If(t, err)
	defer func() { _ = f.Close() }()
	reader, err := mcap.NewReader(f)
	fatal.If(t, err)
	defer reader.Close()
	messages, err := reader.Messages(mcap.UsingIndex(true), mcap.InOrder(mcap.LogTimeOrder))
	fatal.If(t, err)
	i := 10
	fatal.If(t, mcap.Range(messages, func(s *mcap.Schema, c *mcap.Channel, m *mcap.Message) error {
		if s.Name != "foxglove.CompressedImage" || c.Topic != "/view" {
			t.Fatalf("%s on %s", s.Name, c.Topic)
		}
		image, want := decodeDynamically(t, s, m.Data), testPicture(i)
		field := image.Descriptor().Fields().ByName
		stamp := image.Get(field("timestamp")).Message()
		seconds := stamp.Get(stamp.Descriptor().Fields().ByName("seconds")).Int()
		nanos := stamp.Get(stamp.Descriptor().Fields().ByName("nanos")).Int()
		wall := testMetadata(testShape).Clock.Wall(want.At)
		if !bytes.Equal(image.Get(field("data")).Bytes(), want.JPEG) || image.Get(field("format")).String() != "jpeg" ||
			seconds*1e9+nanos != wall || m.LogTime != uint64(wall) {
			t.Fatalf("picture %d: %v at %d, want %d", i, image, m.LogTime, wall)
		}
		i++
		return nil
	}))
	info, err := reader.Info()
	fatal.If(t, err)
	if i != 20 || info.Statistics.ChannelCount != 1 || len(info.Schemas) != 1 {
		t.Errorf("%d pictures, %d channels, %d schemas", i, info.Statistics.ChannelCount, len(info.Schemas))
	}
}

func TestPictures_DamageCostsNoTick(t *testing.T) {
	const n = 20
	edit := func(change func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			content, err := os.ReadFile(path)
			fatal.If(t, err)
			fatal.If(t, os.WriteFile(path, change(content), 0o600))
		}
	}
	for name, c := range map[string]struct {
		damage func(t *testing.T, path string) // of the first file
		least  int                             // pictures left
		errs   int
	}{
		"missing": {func(t *testing.T, path string) { fatal.If(t, os.Remove(path)) }, n / 2, 0},
		"empty":   {edit(func([]byte) []byte { return nil }), n / 2, 1},
		"text":    {edit(func([]byte) []byte { return []byte("no pictures") }), n / 2, 1},
		"cut":     {edit(func(b []byte) []byte { return b[:len(b)/2] }), n / 2, 0},
		"a bit":   {edit(func(b []byte) []byte { b[len(b)/2] ^= 1; return b }), n / 2, 1},
		"a picture": {edit(func(b []byte) []byte {
			return bytes.Replace(b, testPicture(3).JPEG[:8], make([]byte, 8), 1)
		}), n / 2, 1},
		"other run": {func(t *testing.T, path string) {
			meta := testMetadata(testShape)
			meta.Clock.MonoNS++
			w, log := create(t, meta, Options{NoSync: true})
			pictures := w.Pictures(0)
			fatal.If(t, pictures.Write(testPicture(99)))
			fatal.If(t, pictures.Close())
			fatal.If(t, w.Close())
			fatal.If(t, os.Rename(open(t, log).PictureFiles()[0], path))
		}, n / 2, 1},
	} {
		log := createPictures(t, n)
		c.damage(t, open(t, log).PictureFiles()[0])
		found, errs := readPictures(t, log)
		if len(found) < c.least || len(errs) != c.errs || !slices.Contains(found, n-1) {
			t.Errorf("%s: %d pictures, errors %v", name, len(found), errs)
		}
		if ticks, _ := inLog(t, log); ticks != n || len(open(t, log).Damage()) > 0 {
			t.Errorf("%s: %d ticks", name, ticks)
		}
	}
}

func TestPictureWriter_WritesNoneOnAFullDisk(t *testing.T) {
	w, log := create(t, testMetadata(testShape), Options{NoSync: true})
	pictures := w.Pictures(1e9)
	free := int64(2e9)
	pictures.free = func(string) (int64, error) { return free, nil }
	fatal.If(t, pictures.Write(testPicture(0)))
	free = 1e9 - 1
	errtest.NotNil(t, pictures.Write(testPicture(1)), "a picture is written although space is short")
	fatal.If(t, w.WriteLabel(testLabel(1)))
	free = 2e9
	fatal.If(t, pictures.Write(testPicture(2)))
	fatal.If(t, pictures.Close())
	fatal.If(t, w.Close())
	if found, errs := readPictures(t, log); len(errs) > 0 || !slices.Equal(found, []int{0, 2}) {
		t.Errorf("%v, %v", found, errs)
	}
	if small := w.Pictures(0); small.minFree < leastFree {
		t.Error("pictures may take the last bytes of the disk")
	}
}

// runPictureVictim writes a picture each millisecond and prints its number before.
func runPictureVictim(path string) {
	w, err := Create(path, testMetadata(testShape), Options{})
	if err != nil {
		panic(err)
	}
	pictures := w.Pictures(0)
	for i := 0; ; i++ {
		fmt.Printf("picture %d\n", i)
		if err := pictures.Write(testPicture(i)); err != nil {
			panic(err)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestPictureWriter_KillLosesAtMostTheWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	worst := 0
	for range max(1, kills()/4) {
		path, said := killVictim(t, picturesVariable, time.Duration(rng.Int64N(int64(1500*time.Millisecond))))
		last := strings.Count(said, "picture ")
		found, errs := readPictures(t, path)
		if len(errs) > 0 || !slices.Equal(found, countTo(len(found))) {
			t.Fatalf("%d pictures, %v", len(found), errs)
		}
		worst = max(worst, last-len(found))
	}
	t.Logf("at most %d pictures of 1 ms or more lost", worst)
	if window := picturesChunk/len(testPicture(0).JPEG) + 1; worst > window {
		t.Errorf("a kill lost %d pictures, more than a chunk (%d)", worst, window)
	}
}
