"""Types of ``networking.k8s.io/v1``: ingresses, network policies, addresses of services."""

from __future__ import annotations

from typing import Final

NAME: Final = "networking.v1"

TABLE: Final = """
= str: PolicyType PathType

kind Ingress:
  spec    IngressSpec
  status  IngressStatus

IngressSpec:
  ingressClassName  *str
  defaultBackend    *IngressBackend
  tls               []IngressTLS
  rules             []IngressRule

IngressBackend:
  service   *IngressServiceBackend
  resource  *core.TypedLocalObjectReference

IngressServiceBackend:
  name  str  !
  port  ServiceBackendPort

ServiceBackendPort: atomic
  name    str
  number  int32

IngressTLS:
  hosts       []str
  secretName  str

IngressRule:
  host  str
  http  *HTTPIngressRuleValue  in=IngressRuleValue

HTTPIngressRuleValue:
  paths  []HTTPIngressPath  !

HTTPIngressPath:
  path      str
  pathType  *PathType  !
  backend   IngressBackend  !

IngressStatus:
  loadBalancer  IngressLoadBalancerStatus

IngressLoadBalancerStatus:
  ingress  []IngressLoadBalancerIngress

IngressLoadBalancerIngress:
  ip        str
  hostname  str
  ports     []IngressPortStatus

IngressPortStatus:
  port      int32  !
  protocol  core.Protocol  !
  error     *str

kind IngressClass:
  spec  IngressClassSpec

IngressClassSpec:
  controller  str
  parameters  *IngressClassParametersReference

IngressClassParametersReference:
  apiGroup   *str
  kind       str  !
  name       str  !
  scope      *str  +
  namespace  *str

kind NetworkPolicy:
  spec  NetworkPolicySpec

NetworkPolicySpec:
  podSelector  LabelSelector  +
  ingress      []NetworkPolicyIngressRule
  egress       []NetworkPolicyEgressRule
  policyTypes  []PolicyType

NetworkPolicyIngressRule:
  ports  []NetworkPolicyPort
  from   []NetworkPolicyPeer

NetworkPolicyEgressRule:
  ports  []NetworkPolicyPort
  to     []NetworkPolicyPeer

NetworkPolicyPort:
  protocol  *core.Protocol
  port      *intstr
  endPort   *int32

NetworkPolicyPeer:
  podSelector        *LabelSelector
  namespaceSelector  *LabelSelector
  ipBlock            *IPBlock

IPBlock:
  cidr    str  !
  except  []str

kind IPAddress:
  spec  IPAddressSpec

IPAddressSpec:
  parentRef  *ParentReference

ParentReference:
  group      str
  resource   str
  namespace  str
  name       str

kind ServiceCIDR:
  spec    ServiceCIDRSpec
  status  ServiceCIDRStatus

ServiceCIDRSpec:
  cidrs  []str

ServiceCIDRStatus:
  conditions  []Condition  keys=type merge=type
"""
