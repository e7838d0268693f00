package cli

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"optibfm/internal/fatal"
	"optibfm/internal/manualtest"
)

var testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`")

// TestManuals_NameExistingTests compares the manuals with the tests.
func TestManuals_NameExistingTests(t *testing.T) {
	manuals, err := filepath.Glob("../../docs/*.md")
	fatal.If(t, err)
	var tests strings.Builder
	err = filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		tests.Write(source)
		return err
	})
	fatal.If(t, err)
	named := 0
	for _, manual := range manuals {
		text, err := os.ReadFile(manual)
		fatal.If(t, err)
		for _, m := range testName.FindAllStringSubmatch(string(text), -1) {
			named++
			if !strings.Contains(tests.String(), "func "+m[1]+"(") {
				t.Errorf("%s names %s, which does not exist", manual, m[1])
			}
		}
	}
	if named < 20 {
		t.Errorf("the manuals name %d tests", named)
	}
}

var (
	linked  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	named   = regexp.MustCompile(`(?:^|[\s(=])(?:\./)?((?:\.ci|cmd|configs|controller|docs|examples|hal|internal|lab|` +
		`packaging|posterior|rewardsrc|rtloop|scripts|tflite)/[\w./-]*\w)`)
	noWord = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors returns the names of a manual's headings.
func anchors(text string) (names []string) {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		plain := noWord.ReplaceAllString(strings.ToLower(m[1]), "")
		names = append(names, strings.ReplaceAll(plain, " ", "-"))
	}
	return names
}

func TestManuals_LinkedFilesAndHeadingsExist(t *testing.T) {
	for _, m := range manualtest.Manuals(t, "../..") {
		for _, found := range linked.FindAllStringSubmatch(m.Text, -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := filepath.Join("../..", m.Path)
			if target != "" {
				file = filepath.Join(filepath.Dir(file), target)
			}
			text, err := os.ReadFile(file)
			if info, missing := os.Stat(file); missing != nil || err != nil && !info.IsDir() {
				t.Errorf("%s links %s, which does not exist", m.Path, target)
			} else if anchor != "" && strings.HasSuffix(file, ".md") && !slices.Contains(anchors(string(text)), anchor) {
				t.Errorf("%s links %s, which has no heading #%s", m.Path, target, anchor)
			}
		}
	}
}

func TestManuals_NamedFilesExist(t *testing.T) {
	for _, m := range manualtest.Manuals(t, "../..") {
		for _, c := range m.Code {
			for _, found := range named.FindAllStringSubmatch(c.Text, -1) {
				name := strings.TrimSuffix(found[1], ".")
				if rest := c.Text[strings.Index(c.Text, name)+len(name):]; strings.HasPrefix(rest, "{") ||
					strings.HasPrefix(rest, "*") || strings.HasPrefix(rest, "/*") {
					continue // a pattern
				}
				_, missing := os.Stat(filepath.Join("../..", name))
				_, beside := os.Stat(filepath.Join("../..", filepath.Dir(m.Path), name))
				if missing != nil && beside != nil && path.Base(name) != strings.ToUpper(path.Base(name)) {
					t.Errorf("%s names %s, which does not exist", m.Path, name)
				}
			}
		}
	}
}
