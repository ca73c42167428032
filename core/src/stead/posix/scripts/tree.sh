# A command's processes carry a mark that they hand down whatever they do: the soft limit of file locks, which nothing
# uses since Linux 2.4, and which survives new sessions, double forks, cleared variables and closed files.

# tree MARK LEADER: the processes that carry the mark or descend from one that does, the oldest first. Where no mark could
# be set, those that descend from the leader.
tree() {
  grep -HE '^(State|PPid):|^Max file locks' /proc/[0-9]*/status /proc/[0-9]*/limits 2>/dev/null |
    awk -v mark="$1" -v leader="${2:-0}" '
      { split($1, part, "/"); pid = part[3] }
      $1 ~ /:State:$/ && $2 ~ /^[ZX]/ { dead[pid] = 1 }
      $1 ~ /:PPid:$/ { parent[pid] = $2 }
      $1 ~ /:Max$/ && $4 == mark { hit[pid] = 1 }
      END {
        if (leader in parent) hit[leader] = 1
        do {
          more = 0
          for (pid in parent) if (!(pid in hit) && parent[pid] in hit) { hit[pid] = 1; more = 1 }
        } while (more)
        for (pid in hit) if (!(pid in dead)) print pid
      }' | sort -n
}

# end_tree MARK LEADER: asks the processes to end, stops those that stay so that none forks away, and kills them.
end_tree() {
  pids=$(tree "$1" "$2")
  [ -n "$pids" ] || return 0
  kill -TERM $pids 2>/dev/null
  for turn in 1 2 3 4 5; do
    nap 0.04
    pids=$(tree "$1" "$2")
    [ -n "$pids" ] || return 0
  done
  seen=
  for turn in 1 2 3 4 5 6 7 8 9 10 11 12; do
    [ "$pids" != "$seen" ] || break
    kill -STOP $pids 2>/dev/null
    seen=$pids pids=$(tree "$1" "$2")
  done
  for turn in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    pids=$(tree "$1" "$2")
    [ -n "$pids" ] || return 0
    kill -KILL $pids 2>/dev/null
    nap 0.01
  done
}
