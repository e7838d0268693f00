package bundle

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"optibfm/internal/safefile"
)

// The keys of a bundle's provenance that describe the download.
const (
	licenceKey  = "licence"
	revisionKey = "revision"
	downloadKey = "download_sha256"
)

// originParents is the number of folders above a file that may have the model card: BFM-Zero's
// checkpoint is three deep.
const originParents = 5

// addOrigin adds the licence, the revision and the hash of a downloaded file to its provenance.
// Licence and revision are the given ones, or those that a download from Hugging Face leaves beside
// the file.
func (o ImportOptions) addOrigin(provenance map[string]string, file, hash string) {
	provenance[downloadKey] = hash
	if provenance[licenceKey] = o.Licence; o.Licence == "" {
		provenance[licenceKey] = above(file, licenceOf)
	}
	if provenance[revisionKey] = o.Revision; o.Revision == "" {
		provenance[revisionKey] = above(file, revisionOf)
	}
	for key, value := range provenance {
		if value == "" {
			delete(provenance, key)
		}
	}
}

// reportOrigin prints what addOrigin found.
func reportOrigin(out io.Writer, provenance map[string]string) {
	licence := provenance[licenceKey]
	licence = cmp.Or(licence, "not known; read the model's page, and give it with --licence")
	fmt.Fprintf(out, "licence: %s\n", licence)
	if revision := provenance[revisionKey]; revision != "" {
		fmt.Fprintf(out, "revision: %s\n", revision)
	}
	fmt.Fprintf(out, "sha256 of the download: %s\n", provenance[downloadKey])
}

// above returns the first text that find gives for the file's folder or one above it.
func above(file string, find func(root, relative string) string) string {
	path, err := filepath.Abs(file)
	if err != nil {
		return ""
	}
	root := filepath.Dir(path)
	for range originParents {
		if relative, err := filepath.Rel(root, path); err == nil {
			if text := find(root, relative); text != "" {
				return text
			}
		}
		root = filepath.Dir(root)
	}
	return ""
}

// maxCardBytes limits a model card.
const maxCardBytes = 1 << 20

// licenceOf reads the licence of a model card: the key license of the YAML that begins README.md.
func licenceOf(root, _ string) string {
	card, err := safefile.ReadFile(safefile.Dir(root), "README.md", maxCardBytes)
	if err != nil || !bytes.HasPrefix(card, []byte("---")) {
		return ""
	}
	lines := bufio.NewScanner(bytes.NewReader(card[3:]))
	for lines.Scan() && lines.Text() != "---" {
		if text, ok := strings.CutPrefix(lines.Text(), "license:"); ok {
			return oneLine(text)
		}
	}
	return ""
}

// revisionOf reads the commit that `hf download --local-dir` notes for each file.
func revisionOf(root, relative string) string {
	note := filepath.Join(".cache", "huggingface", "download", relative+".metadata")
	text, err := safefile.ReadFile(safefile.Dir(root), note, maxCardBytes)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return oneLine(first)
}

// oneLine returns at most 100 printable characters.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, text)
	text = strings.Trim(text, ` "'`)
	return text[:min(len(text), 100)]
}

// hashOfFile returns the sha256 of a file.
func hashOfFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), err
}
