// Package redact hides passwords and tokens of addresses in texts that are printed or stored.
package redact

import "regexp"

// Hidden replaces a secret. It is valid in an address and needs no quotes in YAML.
const Hidden = "***"

var (
	// login ends at the last @ of a word: a password with an unescaped / or # is hidden too.
	login = regexp.MustCompile("://[^\\s\"'<>`]*@")
	// query is each value of a query: the names of secrets differ from camera to camera. A colon or
	// full stop after it belongs to the text.
	query = regexp.MustCompile("([?&][\\w.\\[\\]%-]+=)[^&\\s\"'<>`#,;)]*[^&\\s\"'<>`#,;):.]")
)

// Text hides the login and the values of the query of each address in a text.
func Text(text string) string {
	return query.ReplaceAllString(login.ReplaceAllString(text, "://"+Hidden+"@"), "${1}"+Hidden)
}
