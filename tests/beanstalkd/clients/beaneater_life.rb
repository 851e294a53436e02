# The life of jobs by beaneater. Arguments: the server's host and port.
require "beaneater"

def check(condition, what)
  raise "not so: #{what}" unless condition
end

client = Beaneater.new("#{ARGV[0]}:#{ARGV[1]}")
tube = client.tubes["mails"]
client.tubes.watch!("mails")
first = tube.put("first", pri: 7, ttr: 30)[:id]
job = client.tubes.reserve(5)
check(job.id == first && job.body == "first", "reserved")
check(job.stats.state == "reserved" && job.pri == 7 && job.ttr == 30, "statistics of a job")
check(job.tube == "mails", "tube of a job")
job.touch
job.bury
check(tube.peek(:buried).id == first, "buried")
tube.kick(10)
job = client.tubes.reserve(0)
job.release(delay: 1)
check(tube.peek(:delayed).id == first, "delayed")
check(client.tubes.reserve.id == first, "reserved once it was due")
job.delete
check(!client.jobs.find(first), "deleted")
begin
  client.tubes.reserve(0)
  raise "no TIMED_OUT"
rescue Beaneater::TimedOutError
end
begin
  tube.put("x" * 65536)
  raise "no JOB_TOO_BIG"
rescue Beaneater::JobTooBigError
end
tube.pause(1)
tube.put("later")
check(client.tubes.reserve(5).body == "later", "reserved after the pause")
check(tube.stats.cmd_pause_tube == 1, "statistics of a tube")
check(tube.stats.name == "mails", "name in the statistics of a tube")
check(client.stats.current_connections == 1, "statistics")
check(client.tubes.all.map(&:name) == %w[default mails], "tubes")
check(client.tubes.watched.map(&:name) == %w[mails], "watched tubes")
client.close
