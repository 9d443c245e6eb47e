/** Job files with the options of fio's examples for the engines librpma and rdma. */

/** Jobs with the options of fio's examples for these engines, comments and places to fill in where those have them. */
export const FIO_EXAMPLES: Readonly<Record<string, string>> = {
  "apm-client.fio": `# a client of librpma_apm
[global]
ioengine=librpma_apm_client
create_serialize=0 # forces an order of initialization
serverip=[serverip] # where the server listens
port=7204
thread

[client]
numjobs=1
group_reporting=1
sync=1
iodepth=2
iodepth_batch_submit=1
rw=write
rwmixread=70
blocksize=4KiB
ramp_time=15s
time_based
runtime=60s
`,
  "apm-server.fio": `[global]
ioengine=librpma_apm_server
create_serialize=0
kb_base=1000 # straight units
serverip=[serverip]
port=7204
thread

[server]
direct_write_to_pmem=0
numjobs=1
size=100MiB
filename=malloc
`,
  "gpspm-client.fio": `[global]
ioengine=librpma_gpspm_client
create_serialize=0
serverip=[serverip]
port=7204
thread
[client]
numjobs=1
group_reporting=1
sync=1
iodepth=2
iodepth_batch_submit=1
rw=write
blocksize=4KiB
ramp_time=15s
time_based
runtime=60s
`,
  "gpspm-server.fio": `[global]
ioengine=librpma_gpspm_server
create_serialize=0
kb_base=1000
serverip=[serverip]
port=7204
thread
[server]
direct_write_to_pmem=0
busy_wait_polling=1
numjobs=1
iodepth=2
size=100MiB
filename=malloc
time_based
runtime=365d
`,
  "rdma-client.fio": `[global]
ioengine=rdma
hostname=[hostname]
port=[port]
verb=[read/write/send/recv]
bs=1m
size=100g
[sender]
rw=write
iodepth=1
iodepth_batch_complete=1
`,
  "rdma-server.fio": `[global]
ioengine=rdma
port=[port]
bs=1m
size=100g
[receiver]
rw=read
iodepth=16
`,
};
