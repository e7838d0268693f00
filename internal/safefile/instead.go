package safefile

import "bytes"

// Instead recognises, by its start, a git-lfs pointer or a web page in place of a data file. It
// returns a description with a fix, and "" for any other file.
func Instead(start []byte) string {
	text := bytes.ToLower(bytes.TrimSpace(start))
	switch {
	case bytes.HasPrefix(start, []byte("version ")): // https://git-lfs.github.com/spec/v1
		return "a git-lfs pointer in place of the file; run `git lfs pull`, or download the file itself"
	case bytes.HasPrefix(text, []byte("<!doctyp")), bytes.HasPrefix(text, []byte("<html")):
		return "a web page in place of the file; download the file itself (Hugging Face: /resolve/, not /blob/)"
	}
	return ""
}
