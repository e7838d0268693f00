package safefile

import "bytes"

// Instead returns what a file is that begins with start, and a fix, if it stands in place of a file of
// data: a pointer of git-lfs or a web page. Otherwise it returns "".
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
