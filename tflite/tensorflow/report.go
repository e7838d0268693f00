//go:build tensorflow

package tensorflow

func (m *graphModel) String() string { return m.report.String() }
func (m *savedModel) String() string { return m.report.String() }
