/**
 * The functions that rdma-core's headers declare for programs, by name (rdma-core 65): without
 * `verbs_get_ctx`, `rdma_seterrno` and names that begin with an underscore, which are the headers' own.
 */

function named(text: string): readonly string[] {
  return text.trim().split(/\s+/);
}

/** infiniband/verbs.h */
export const VERBS_H = named(`
  ibv_ack_async_event ibv_ack_cq_events ibv_advise_mr ibv_alloc_buf ibv_alloc_dm ibv_alloc_dmah
  ibv_alloc_mw ibv_alloc_null_mr ibv_alloc_parent_domain ibv_alloc_pd ibv_alloc_td
  ibv_attach_counters_point_flow ibv_attach_mcast ibv_bind_mw ibv_close_device ibv_close_xrcd
  ibv_cq_ex_to_cq ibv_create_ah ibv_create_ah_from_wc ibv_create_comp_channel
  ibv_create_comp_cntr ibv_create_counters ibv_create_cq ibv_create_cq_ex ibv_create_flow
  ibv_create_flow_action_esp ibv_create_qp ibv_create_qp_ex ibv_create_rwq_ind_table
  ibv_create_srq ibv_create_srq_ex ibv_create_wq ibv_dealloc_dmah ibv_dealloc_mw ibv_dealloc_pd
  ibv_dealloc_td ibv_dereg_mr ibv_destroy_ah ibv_destroy_comp_channel ibv_destroy_comp_cntr
  ibv_destroy_counters ibv_destroy_cq ibv_destroy_flow ibv_destroy_flow_action ibv_destroy_qp
  ibv_destroy_rwq_ind_table ibv_destroy_srq ibv_destroy_wq ibv_detach_mcast
  ibv_dm_export_dmabuf_fd ibv_end_poll ibv_event_type_str ibv_export_buf_dmabuf_fd
  ibv_flow_label_to_udp_sport ibv_fork_init ibv_free_buf ibv_free_device_list ibv_free_dm
  ibv_get_async_event ibv_get_cq_event ibv_get_device_guid ibv_get_device_index
  ibv_get_device_list ibv_get_device_name ibv_get_pkey_index ibv_get_srq_num ibv_import_device
  ibv_import_dm ibv_import_mr ibv_import_pd ibv_inc_comp_cntr ibv_inc_err_comp_cntr ibv_inc_rkey
  ibv_init_ah_from_wc ibv_is_fork_initialized ibv_is_qpt_supported ibv_memcpy_from_dm
  ibv_memcpy_to_dm ibv_modify_cq ibv_modify_flow_action_esp ibv_modify_qp
  ibv_modify_qp_rate_limit ibv_modify_srq ibv_modify_wq ibv_next_poll ibv_node_type_str
  ibv_open_device ibv_open_qp ibv_open_xrcd ibv_poll_cq ibv_port_state_str ibv_post_recv
  ibv_post_send ibv_post_srq_ops ibv_post_srq_recv ibv_post_wq_recv ibv_qp_attach_comp_cntr
  ibv_qp_to_qp_ex ibv_query_comp_cntr_caps ibv_query_device ibv_query_device_ex ibv_query_ece
  ibv_query_gid ibv_query_gid_ex ibv_query_gid_table ibv_query_pkey ibv_query_port
  ibv_query_port_speed ibv_query_qp ibv_query_qp_data_in_order ibv_query_rt_values_ex
  ibv_query_srq ibv_rate_to_mbps ibv_rate_to_mult ibv_read_comp_cntr ibv_read_counters
  ibv_read_err_comp_cntr ibv_reg_buf_mr ibv_reg_dm_mr ibv_reg_dmabuf_mr ibv_reg_mr ibv_reg_mr_ex
  ibv_reg_mr_iova ibv_reg_mr_iova2 ibv_req_notify_cq ibv_rereg_mr ibv_resize_cq
  ibv_resolve_eth_l2_from_gid ibv_set_comp_cntr ibv_set_ece ibv_set_err_comp_cntr ibv_start_poll
  ibv_static_providers ibv_unimport_dm ibv_unimport_mr ibv_unimport_pd ibv_wc_read_byte_len
  ibv_wc_read_completion_ts ibv_wc_read_completion_wallclock_ns ibv_wc_read_cvlan
  ibv_wc_read_dlid_path_bits ibv_wc_read_flow_tag ibv_wc_read_imm_data
  ibv_wc_read_invalidated_rkey ibv_wc_read_opcode ibv_wc_read_qp_num ibv_wc_read_sl
  ibv_wc_read_slid ibv_wc_read_src_qp ibv_wc_read_tm_info ibv_wc_read_vendor_err
  ibv_wc_read_wc_flags ibv_wc_status_str ibv_wr_abort ibv_wr_atomic_cmp_swp
  ibv_wr_atomic_fetch_add ibv_wr_atomic_write ibv_wr_bind_mw ibv_wr_complete ibv_wr_flush
  ibv_wr_local_inv ibv_wr_opcode_str ibv_wr_rdma_read ibv_wr_rdma_write ibv_wr_rdma_write_imm
  ibv_wr_send ibv_wr_send_imm ibv_wr_send_inv ibv_wr_send_tso ibv_wr_set_inline_data
  ibv_wr_set_inline_data_list ibv_wr_set_sge ibv_wr_set_sge_list ibv_wr_set_ud_addr
  ibv_wr_set_xrc_srqn ibv_wr_start mbps_to_ibv_rate mult_to_ibv_rate
`);

/** rdma/rdma_cma.h */
export const RDMA_CMA_H = named(`
  rdma_accept rdma_ack_cm_event rdma_bind_addr rdma_connect rdma_create_ep
  rdma_create_event_channel rdma_create_id rdma_create_qp rdma_create_qp_ex rdma_destroy_ep
  rdma_destroy_event_channel rdma_destroy_id rdma_destroy_qp rdma_disconnect rdma_establish
  rdma_event_str rdma_free_devices rdma_freeaddrinfo rdma_get_cm_event rdma_get_devices
  rdma_get_dst_port rdma_get_local_addr rdma_get_peer_addr rdma_get_remote_ece rdma_get_request
  rdma_get_src_port rdma_getaddrinfo rdma_init_qp_attr rdma_join_multicast
  rdma_join_multicast_ex rdma_leave_multicast rdma_listen rdma_migrate_id rdma_notify
  rdma_query_addrinfo rdma_reject rdma_reject_ece rdma_resolve_addr rdma_resolve_addrinfo
  rdma_resolve_route rdma_set_local_ece rdma_set_option rdma_write_cm_event
`);

/** rdma/rdma_verbs.h */
export const RDMA_VERBS_H = named(`
  rdma_create_srq rdma_create_srq_ex rdma_dereg_mr rdma_destroy_srq rdma_get_recv_comp
  rdma_get_send_comp rdma_post_read rdma_post_readv rdma_post_recv rdma_post_recvv
  rdma_post_send rdma_post_sendv rdma_post_ud_send rdma_post_write rdma_post_writev
  rdma_reg_msgs rdma_reg_read rdma_reg_write
`);
