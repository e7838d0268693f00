package report
import ("testing";"os")
func TestLook(t *testing.T){
 l:=newLab(); l.paper()
 r:=newReport(t,l.rows)
 _,err:=r.Write("/tmp/evalreport"); must(t,err)
 must(t,r.WriteText(os.Stdout))
}
